#pragma once
#include <filesystem>
#include <memory>
#include <string>

namespace tutti::cuda {

struct NcclFunctions;

/// NCCL, loaded at run time. A process may have several copies. One object makes all its
/// communicators with the same copy.
class NcclLibrary {
 public:
  /// Loads NCCL from the first of these places that has it:
  /// - `path`, a file; if it is empty, there is no such place;
  /// - the copy that the process has already loaded, for example a framework's;
  /// - libnccl.so.2 on the loader's path;
  /// - libnccl.so.2 in /usr/local/cuda/lib64.
  ///
  /// It stays loaded. Throws `unsupported`, with the places where it looked, if there is none, if
  /// `path` is given and cannot be loaded, if it is older than NCCL 2.14, and in a build without
  /// CUDA.
  explicit NcclLibrary(const std::string& path = "");

  /// The version as NCCL counts it: 22809 for 2.28.9.
  int version() const { return version_; }
  /// "2.28.9"
  std::string version_text() const;
  /// The file from which it was loaded.
  const std::filesystem::path& path() const { return path_; }

  const NcclFunctions& functions() const { return *functions_; }

 private:
  std::shared_ptr<const NcclFunctions> functions_;
  int version_ = 0;
  std::filesystem::path path_;
};

}  // namespace tutti::cuda
