#pragma once

namespace tutti::python {

/// From now on a `tutti::Error` that leaves a function becomes the class of `tutti.errors` for its
/// code.
void translate_errors();

}  // namespace tutti::python
