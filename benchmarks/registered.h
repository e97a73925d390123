#pragma once

namespace tutti::bench {

/// The rest of a main that has registered its benchmarks with Google Benchmark: runs those that the
/// command line asks for. `seconds`: about how long all of them take, which is printed first.
/// Returns the exit status: 2 for an unknown option or value, or a filter that matches nothing.
int run_registered(int argc, char** argv, double seconds);

}  // namespace tutti::bench
