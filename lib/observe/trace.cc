#include "observe/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "observe/microseconds.h"
#include "observe/slices.h"

namespace tutti::observe {
namespace {

using nlohmann::json;

/// Perfetto takes process 0 and thread 0 for the kernel's idle ones, so numbers begin at 1. It
/// shows a process's main thread first, whose number is that of the process. That is row 0.
int pid_of(int rank) {
  return rank + 1;
}
int tid_of(int rank, int row) {
  return pid_of(rank) + row;
}

json metadata(int rank, int row, const char* what, json args) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", pid_of(rank)},
          {"tid", tid_of(rank, row)},
          {"args", std::move(args)}};
}

/// A key need not be UTF-8, but JSON must.
std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json about(const Timeline& timeline, const TraceInfo& info) {
  return {{"rank", info.rank},
          {"node", info.node},
          {"host", info.host},
          {"store", info.store},
          {"job", std::to_string(info.origin)},
          {"clock_offset_us", us(info.clock_offset)},
          {"clock_error_us", us(info.clock_error)},
          {"events", timeline.events().size()},
          {"events_left_out", timeline.dropped()}};
}

std::string args_of(const TraceSlice& slice) {
  std::string text;
  if (slice.gate != TraceSlice::no_gate) {
    text += fmt::format(R"("batch":"{}.{}",)", slice.gate >> Timeline::gate_bits,
                        slice.gate & ((std::uint64_t{1} << Timeline::gate_bits) - 1));
  }
  if (slice.chunk >= 0) text += fmt::format(R"("chunk":{},)", slice.chunk);
  if (slice.kib >= 0) text += fmt::format(R"("KiB":{},)", slice.kib);
  if (slice.unfinished) text += R"("unfinished":true,)";
  if (!text.empty()) text.pop_back();
  return text;
}

class Writer {
 public:
  Writer(std::ostream& out, const Timeline& timeline, const TraceInfo& info)
      : out_(out), timeline_(timeline), info_(info) {}

  void write();

 private:
  void line(const std::string& text) {
    out_ << (first_ ? "[\n" : ",\n") << text;
    first_ = false;
  }
  void name_row(int row, const std::string& name);
  void write_slice(int row, const TraceSlice& slice);

  std::ostream& out_;
  const Timeline& timeline_;
  const TraceInfo& info_;
  bool first_ = true;
};

void Writer::name_row(int row, const std::string& name) {
  line(text_of(metadata(info_.rank, row, "thread_name", {{"name", name}})));
  line(text_of(metadata(info_.rank, row, "thread_sort_index", {{"sort_index", row}})));
}

void Writer::write_slice(int row, const TraceSlice& slice) {
  const double begin = us(slice.begin + info_.clock_offset - info_.origin);
  line(fmt::format(
      R"({{"ts":{:.3f},"dur":{:.3f},"ph":"X","pid":{},"tid":{},"cat":"{}","name":{},"args":{{{}}}}})",
      begin, us(slice.end - slice.begin), pid_of(info_.rank), tid_of(info_.rank, row),
      slice.category, text_of(slice.name), args_of(slice)));
}

void Writer::write() {
  line(text_of(metadata(info_.rank, 0, "tutti", about(timeline_, info_))));
  const std::string name = fmt::format("rank {} on {}", info_.rank, info_.host);
  line(text_of(metadata(info_.rank, 0, "process_name", {{"name", name}})));
  line(text_of(metadata(info_.rank, 0, "process_sort_index", {{"sort_index", info_.rank}})));
  int row = 0;
  for (const auto& [id, slices] : slices_of(timeline_)) {
    name_row(row, id.name(timeline_));
    for (const TraceSlice& slice : slices) write_slice(row, slice);
    ++row;
  }
  out_ << "\n]\n";
}

}  // namespace

void write_trace(std::ostream& out, const Timeline& timeline, const TraceInfo& info) {
  Writer(out, timeline, info).write();
}

}  // namespace tutti::observe
