#pragma once
#include <optional>
#include <string>

#include "net/secret.h"

namespace tutti::ps {

/// The job's secret from TUTTI_JOB_KEY, or from the file that TUTTI_JOB_KEY_FILE names. This user
/// must own that file, and no other user may be able to read it. Returns none if neither variable
/// is set. Throws `invalid_argument` for an unusable secret, and for one that everybody can guess.
/// No message contains the secret.
std::optional<net::Secret> secret_of(const std::optional<std::string>& key,
                                     const std::optional<std::string>& file);

/// The secret for those of this user's jobs to which no secret is given. It lies in a file below
/// the user's home, .cache/tutti/job-key. The first of the processes makes it, and other users
/// cannot read it. Throws `invalid_argument` if that is not possible. `home` may be empty then.
net::Secret secret_of_user(const std::string& home);

}  // namespace tutti::ps
