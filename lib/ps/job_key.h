#pragma once
#include <optional>
#include <string>

#include "net/secret.h"

namespace tutti::ps {

/// The job's secret out of TUTTI_JOB_KEY, or of the file that TUTTI_JOB_KEY_FILE names, which only
/// its owner, this user, may read. None where both are empty. Throws `invalid_argument`; the secret
/// is in no message.
std::optional<net::Secret> secret_of(const std::string& key, const std::string& file);

}  // namespace tutti::ps
