// A library for test/python/package_translation.py. Its KVStore::create makes a store that only
// writes down its calls. A program loads it with global symbols before tutti's own library, and so
// gets all of tutti from it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/completion.h"
#include "recording_store.h"
#include "tutti/info.h"

using namespace tutti;

namespace {

/// The calls that stores before the newest one heard, and those that the newest heard if it is
/// gone.
std::string heard_before;
/// The store that was made last. Null when it is gone.
RecordingStore* newest = nullptr;
/// The outcome of the calls that are open.
std::shared_ptr<base::Completion> outcome;
const auto order = std::make_shared<RecordingOrder>();

/// Returns the words that a recorded call gets if its thread holds Python's lock. No call may hold
/// it, because other threads of Python would wait for the call.
std::string lock_held() {
  static auto* const holds_lock =
      reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return holds_lock() != 0 ? " with the GIL" : "";
}

class PythonsStore : public RecordingStore {
 public:
  PythonsStore() {
    add_to_each(lock_held);
    newest = this;
  }
  ~PythonsStore() override {
    heard_before += take_heard();
    if (newest == this) newest = nullptr;
  }
};

std::string shown(const std::optional<std::size_t>& number) {
  return number ? fmt::format("{}", *number) : "none";
}

std::string shown(const std::optional<int>& number) {
  return number ? fmt::format("{}", *number) : "none";
}

std::string shown(const Options& options) {
  return fmt::format(
      "ranks={} interface={} encrypt={} user_makes_no_mpi_calls={} reproducible={} staleness={} "
      "gpu={} stall_report_after={} key_timeout={} heartbeat_timeout={} create_timeout={} "
      "log_level={} timeline={} replay={} fusion_bytes={} part_bytes={} slice_bytes={}",
      fmt::join(options.ranks, "+"), options.interface, options.encrypt,
      options.user_makes_no_mpi_calls, options.reproducible, shown(options.staleness),
      shown(options.gpu), options.stall_report_after.count(), options.key_timeout.count(),
      options.heartbeat_timeout.count(), options.create_timeout.count(), options.log_level,
      options.timeline, options.replay, shown(options.fusion_bytes), shown(options.part_bytes),
      options.slice_bytes);
}

/// The error with this code, about this key if there is one, and these ranks.
Error error_of(int code, const char* text_key, const std::int64_t* number_key, const int* ranks,
               std::size_t rank_count) {
  Error::Subject subject;
  if (text_key != nullptr) subject.key = std::string(text_key);
  if (number_key != nullptr) subject.key = *number_key;
  subject.ranks.assign(ranks, ranks + rank_count);
  return {static_cast<ErrorCode>(code), "they differ", subject};
}

}  // namespace

std::unique_ptr<KVStore> KVStore::create(std::string_view type, const Options& options) {
  heard_before += fmt::format("create {} {}{}", type, shown(options), lock_held());
  return std::make_unique<KVStore>(std::make_unique<PythonsStore>());
}

std::unique_ptr<KVStore> KVStore::create(std::string_view type) {
  return create(type, Options::from_env());
}

extern "C" {

/// The calls since the last time. The text is valid until the next call.
TUTTI_EXPORT const char* recording_take_heard() {
  static std::string text;
  text = std::exchange(heard_before, "");
  if (newest != nullptr) text += newest->take_heard();
  return text.c_str();
}

TUTTI_EXPORT void recording_name(const void* place, const char* name) {
  newest->name(place, name);
}

TUTTI_EXPORT void recording_fail_next(int code, const char* text_key,
                                      const std::int64_t* number_key, const int* ranks,
                                      std::size_t rank_count) {
  newest->fail_next(error_of(code, text_key, number_key, ranks, rank_count));
}

/// The calls from now on are done when `recording_finish` or `recording_fail` is called. A stream
/// waits for them that `recording_stream` returns.
TUTTI_EXPORT void recording_open() {
  outcome = std::make_shared<base::Completion>(1, "a call", std::weak_ptr<base::Driver>(), order);
  newest->answer_by(outcome);
}

TUTTI_EXPORT void recording_issue() {
  outcome->issue();
}

TUTTI_EXPORT void recording_finish() {
  outcome->finish();
}

TUTTI_EXPORT void recording_fail(int code, const char* text_key, const std::int64_t* number_key,
                                 const int* ranks, std::size_t rank_count) {
  outcome->finish(std::make_exception_ptr(error_of(code, text_key, number_key, ranks, rank_count)));
}

TUTTI_EXPORT void* recording_stream() {
  return static_cast<void*>(std::exchange(order->held, nullptr));
}

TUTTI_EXPORT std::uint64_t recording_most_buffer_bytes(int ranks_per_node, int nodes) {
  return most_buffer_bytes(Options::from_env(), ranks_per_node, nodes);
}

}  // extern "C"
