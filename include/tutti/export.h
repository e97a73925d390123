#pragma once
/// Everything in libtutti.so is hidden except what carries this mark.
#define TUTTI_EXPORT __attribute__((visibility("default")))
