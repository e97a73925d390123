#pragma once
/// Includes every header that a program needs; programs that run a server also include
/// tutti/server.h.
#include "tutti/bound.h"            // IWYU pragma: export
#include "tutti/collective_kind.h"  // IWYU pragma: export
#include "tutti/copy.h"             // IWYU pragma: export
#include "tutti/counters.h"         // IWYU pragma: export
#include "tutti/device_stream.h"    // IWYU pragma: export
#include "tutti/error.h"            // IWYU pragma: export
#include "tutti/info.h"             // IWYU pragma: export
#include "tutti/key.h"              // IWYU pragma: export
#include "tutti/kvstore.h"          // IWYU pragma: export
#include "tutti/log.h"              // IWYU pragma: export
#include "tutti/optimizer.h"        // IWYU pragma: export
#include "tutti/options.h"          // IWYU pragma: export
#include "tutti/pending.h"          // IWYU pragma: export
#include "tutti/quick_deleter.h"    // IWYU pragma: export
#include "tutti/reduce_op.h"        // IWYU pragma: export
#include "tutti/shard.h"            // IWYU pragma: export
#include "tutti/tensor.h"           // IWYU pragma: export
#include "tutti/version.h"          // IWYU pragma: export
#include "tutti/wire_format.h"      // IWYU pragma: export
