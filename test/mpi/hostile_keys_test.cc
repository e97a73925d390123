// Keys belong to the program, which may take them from anywhere. With any key, errors and log lines
// name the key, are one line each, and contain their reason.
#include "../unit/base/stderr_of.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using namespace std::string_literals;
using Catch::Contains;

namespace {

constexpr std::size_t longest_error = 1000;
constexpr std::size_t longest_line = 2000;

struct HostileKey {
  std::string key;
  std::string shown;  ///< a part of how it is described
};

std::vector<HostileKey> hostile_keys() {
  return {
      {"\n[error] forged", R"('\n[error] forged')"},
      {"\x1b[31mred", R"('\x1b[31mred')"},
      {"w\0 without an end"s, R"('w\x00 without an end')"},
      {"w' and rank 7's", R"('w\' and rank 7\'s')"},
      {std::string(Key::max_bytes, 'k'), "...kkkk"},
      {std::string(Key::max_bytes, '\n'), R"(\n...\n)"},
      {"not UTF-8: \xff\xc3", R"('not UTF-8: \xff\xc3')"},
      {"turned \u202e around\u2028", R"('turned \u202e around\u2028')"},
  };
}

/// A control character would be an end of the line, or a command to the terminal.
bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

void check_error(const Error& error, ErrorCode code, const std::string& shown,
                 const std::string& reason) {
  const std::string text = error.what();
  CHECK(error.code() == code);
  CHECK_THAT(text, Contains(shown) && Contains(reason));
  CHECK_FALSE(has_control_characters(text));
  CHECK(text.size() < longest_error);
}

/// A tensor whose shape differs on the last rank.
Tensor unlike(std::vector<float>& data, const KVStore& store) {
  const bool odd = store.rank() == store.num_workers() - 1;
  return {data.data(), odd ? Shape{3, 2} : Shape{2, 3}, DType::f32};
}

}  // namespace

TEST_CASE("an error is one short line that has its reason, whatever its key holds") {
  auto store = make_store();
  std::vector<float> data(6);
  const Tensor tensor = unlike(data, *store);
  const Tensor flat(data.data(), {6}, DType::f32);
  for (const HostileKey& hostile : hostile_keys()) {
    const std::string& key = hostile.key;
    const std::string& shown = hostile.shown;
    const Error mismatch = error_of([&] { store->pushpull(key, tensor, tensor).wait(); });
    check_error(mismatch, ErrorCode::mismatch, shown, "shapes differ");
    const Error refused = error_of([&] { store->pushpull(key, tensor, flat); });
    check_error(refused, ErrorCode::invalid_argument, shown, "same dtype and shape");
    const Error twice = error_of([&] {
      store->pushpull(std::vector<Key>{key, key}, {flat, flat}, {flat, flat});
    });
    check_error(twice, ErrorCode::duplicate_key, shown, "twice in one call");
  }
  check_alive(*store);
}

TEST_CASE("each failure that nobody waited for is one line of the log, whatever its key holds") {
  const std::string log = stderr_of([] {
    auto store = make_store();
    std::vector<float> data(6);
    const Tensor tensor = unlike(data, *store);
    for (const auto& [key, shown] : hostile_keys()) store->pushpull(key, tensor, tensor);
    check_alive(*store);
  });
  std::size_t found = 0;
  for (const auto& [key, shown] : hostile_keys()) {
    for (const std::string& line : lines_of(log)) {
      if (line.find(shown) == std::string::npos) continue;
      ++found;
      CHECK_THAT(line, Contains("failed and nobody waited") && Contains("shapes differ"));
      CHECK(line.size() < longest_line);
    }
  }
  CHECK(found == hostile_keys().size());
  for (const std::string& line : lines_of(log)) {
    CHECK_FALSE(has_control_characters(line.substr(0, line.size() - 1)));
    CHECK_THAT(line, Contains("tutti[rank"));
  }
}
