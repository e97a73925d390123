#pragma once
#include <cstdint>
#include <ostream>
#include <string>

#include "observe/timeline.h"

namespace tutti::observe {

/// Whose recording it is, and how to put its clock right. Times in ns.
struct TraceInfo {
  int rank = 0;
  int node = 0;
  std::string host;
  int store = 0;
  std::int64_t origin = 0;        ///< of the trace's times, on rank 0's clock; names the job
  std::int64_t clock_offset = 0;  ///< added to this rank's clock it gives rank 0's
  std::int64_t clock_error = 0;   ///< the offset is right within this
};

/// One rank's recording as a Chrome trace: a JSON array with one event a line, the first of which
/// is the metadata event "tutti". Every slice's line begins with its time and its length.
void write_trace(std::ostream& out, const Timeline& timeline, const TraceInfo& info);

}  // namespace tutti::observe
