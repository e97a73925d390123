#pragma once
#include <exception>
#include <string>

namespace tutti::python::mxnet {

/// MXNet tells an error in words alone. What these are for this error, of which the newest are
/// kept: `tutti.peer_lost: ...`. Thread-safe, as `recall` is.
std::string remember(const std::exception_ptr& error);

/// The error that is told in these words, or null. Whoever asks is told of it.
std::exception_ptr recall(const std::string& words);

/// Of a program that was told of no error its first one, if it is kept still; else "".
std::string untold();

}  // namespace tutti::python::mxnet
