#pragma once

namespace tutti::bench {

/// The rest of a main that has registered its benchmarks with Google Benchmark. It runs the
/// benchmarks that the command line names. `seconds` is about how long all of them take, which is
/// printed first. Returns the exit status: 2 for an unknown option or value, or for a filter that
/// matches nothing.
int run_registered(int argc, char** argv, double seconds);

}  // namespace tutti::bench
