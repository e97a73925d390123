#pragma once

namespace tutti::bench {

/// The rest of a main that has registered its benchmarks with Google Benchmark: runs those that the
/// command line asks for. All of them take about so many seconds, which is said first. Returns the
/// exit status: 2 when the line has an option or a value that there is not, or a filter that
/// matches nothing.
int run_registered(int argc, char** argv, double seconds);

}  // namespace tutti::bench
