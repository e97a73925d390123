#pragma once
#include <cstdint>
#include <ostream>
#include <string>

#include "observe/timeline.h"

namespace tutti::observe {

/// Says which rank made the recording, and how to correct its clock. Times are in ns.
struct TraceInfo {
  int rank = 0;
  int node = 0;
  std::string host;
  int store = 0;
  std::int64_t origin = 0;        ///< zero of the trace's times, by rank 0's clock; names the job
  std::int64_t clock_offset = 0;  ///< added to this rank's clock it gives rank 0's
  std::int64_t clock_error = 0;   ///< the offset is right within this
};

/// Writes one rank's recording as a Chrome trace: a JSON array with one event a line. The first is
/// the metadata event "tutti". The line of a slice begins with its time and its length, which
/// `merge_traces` relies on.
void write_trace(std::ostream& out, const Timeline& timeline, const TraceInfo& info);

}  // namespace tutti::observe
