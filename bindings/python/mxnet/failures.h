#pragma once
#include <exception>
#include <string>

namespace tutti::python::mxnet {

/// MXNet passes an error on as text alone. Keeps this error, and returns the text by which `recall`
/// finds it: `tutti.peer_lost: ...`. Only the newest errors are kept. Thread-safe, as `recall` is.
std::string remember(const std::exception_ptr& error);

/// The error with this text, or null. The error counts as told to the program.
std::exception_ptr recall(const std::string& words);

/// If the program was told of no error, the text of the first error that is still kept; else "".
std::string untold();

}  // namespace tutti::python::mxnet
