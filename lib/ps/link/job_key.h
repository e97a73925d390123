#pragma once
#include <optional>
#include <string>

#include "net/secret.h"

namespace tutti::ps {

/// The job's secret from TUTTI_JOB_KEY, or from the file that TUTTI_JOB_KEY_FILE names. Only its
/// owner, this user, may be able to read that file. None if neither variable is set. Throws
/// `invalid_argument` for an unusable secret, also for one that everybody can guess. No message
/// contains the secret.
std::optional<net::Secret> secret_of(const std::optional<std::string>& key,
                                     const std::optional<std::string>& file);

/// The secret of this user's jobs that are given none. It lies in a file below the user's home,
/// .cache/tutti/job-key, which the first of the processes makes; other users cannot read it. Throws
/// `invalid_argument` where that is not possible; `home` may be empty then.
net::Secret secret_of_user(const std::string& home);

}  // namespace tutti::ps
