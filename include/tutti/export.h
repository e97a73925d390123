#pragma once
/// Marks a symbol as visible. All other symbols of libtutti.so are hidden.
#define TUTTI_EXPORT __attribute__((visibility("default")))
