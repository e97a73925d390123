#pragma once
#include <exception>
#include <string>

namespace tutti::python::mxnet {

/// MXNet passes only the text of an error on. This keeps the error, and returns the text by which
/// `recall` finds it: `tutti.peer_lost: ...`. Only the newest errors are kept. Thread-safe, like
/// `recall`.
std::string remember(const std::exception_ptr& error);

/// The error with this text, or null. From now on the program counts as told of the error.
std::exception_ptr recall(const std::string& words);

/// If the program was told of no error, returns the text of the first error that is still kept.
/// Otherwise returns "".
std::string untold();

}  // namespace tutti::python::mxnet
