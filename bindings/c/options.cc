#include "guard.h"
#include "handles.h"

using tutti::c::at;
using tutti::c::guarded;

int tutti_options_create(tutti_options** options) {
  return guarded([&, function = "tutti_options_create"] {
    tutti_options*& made = at(options, function, "options");
    made = new tutti_options{};
  });
}

int tutti_options_from_env(tutti_options** options) {
  return guarded([&, function = "tutti_options_from_env"] {
    tutti_options*& made = at(options, function, "options");
    made = new tutti_options{tutti::Options::from_env()};
  });
}

void tutti_options_destroy(tutti_options* options) {
  delete options;
}

int tutti_options_set(tutti_options* options, const char* field, const char* value) {
  return guarded([&] {
    at(options, "tutti_options_set", "options")
        .options.set(&at(field, "tutti_options_set", "field"),
                     &at(value, "tutti_options_set", "value"));
  });
}
