#include "tutti/info.h"

#include <memory>
#include <vector>

#include "guard.h"
#include "handles.h"

using tutti::c::at;
using tutti::c::guarded;

namespace {

/// A list as the caller sees it. It points to texts that it owns.
class Facts : public tutti_facts {
 public:
  explicit Facts(std::vector<tutti::Choice> texts) : tutti_facts{}, texts_(std::move(texts)) {
    shown_.reserve(texts_.size());
    for (const tutti::Choice& text : texts_) {
      shown_.push_back({text.name.c_str(), text.value.c_str(),
                        text.origin.empty() ? nullptr : text.origin.c_str()});
    }
    facts = shown_.data();
    count = shown_.size();
  }
  ~Facts() = default;
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;

 private:
  std::vector<tutti::Choice> texts_;
  std::vector<tutti_fact> shown_;
};

std::vector<tutti::Choice> without_origin(const std::vector<tutti::Fact>& facts) {
  std::vector<tutti::Choice> result;
  result.reserve(facts.size());
  for (const tutti::Fact& fact : facts) result.push_back({fact.name, fact.value, ""});
  return result;
}

tutti::Options options_of(const tutti_options* options) {
  return options == nullptr ? tutti::Options::from_env() : options->options;
}

}  // namespace

void tutti_facts_destroy(tutti_facts* facts) {
  delete static_cast<Facts*>(facts);
}

int tutti_build_info(tutti_facts** facts) {
  return guarded([&] {
    tutti_facts*& made = at(facts, "tutti_build_info", "facts");
    made = new Facts(without_origin(tutti::build_info()));
  });
}

int tutti_gpu_info(tutti_facts** facts) {
  return guarded([&] {
    tutti_facts*& made = at(facts, "tutti_gpu_info", "facts");
    made = new Facts(without_origin(tutti::gpu_info()));
  });
}

int tutti_options_describe(const tutti_options* options, tutti_facts** facts) {
  return guarded([&] {
    tutti_facts*& made = at(facts, "tutti_options_describe", "facts");
    made = new Facts(without_origin(tutti::describe(options_of(options))));
  });
}

int tutti_most_buffer_bytes(const tutti_options* options, int ranks_per_node, int nodes,
                            uint64_t* bytes) {
  return guarded([&] {
    uint64_t& most = at(bytes, "tutti_most_buffer_bytes", "bytes");
    most = tutti::most_buffer_bytes(options_of(options), ranks_per_node, nodes);
  });
}

int tutti_store_choices(const tutti_store* store, tutti_facts** facts) {
  return guarded([&, function = "tutti_store_choices"] {
    tutti_facts*& made = at(facts, function, "facts");
    made = new Facts(at(store, function, "store").store->choices());
  });
}
