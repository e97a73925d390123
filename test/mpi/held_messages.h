#pragma once
#include <chrono>
#include <cstddef>

/// A program that is linked with this has an MPI that takes a message at once, as MPI may do, and
/// sends it no sooner than `time` later, when it is called again: as Open MPI does with the last
/// words of a message when a connection is full, only with all but small ones. 0, as at first:
/// sends at once.
void hold_messages(std::chrono::milliseconds time);
/// The same, but only with messages of that many bytes, and with those that follow them on their
/// communicator.
void hold_messages(std::chrono::milliseconds time, std::size_t bytes);

/// How often MPI has been called for no message in particular.
int probes();
