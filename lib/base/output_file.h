#pragma once
#include <ext/stdio_filebuf.h>

#include <ostream>

#include "base/fd.h"

namespace tutti::base {

/// A file that is written from its beginning and keeps the errno of the first failed write. A plain
/// stream only knows that a write failed, and later calls overwrite errno.
class OutputFile : public std::ostream {
 public:
  /// `file` is open for writing. Its offset is where the text begins.
  explicit OutputFile(Fd file);

  /// Writes the buffered bytes and closes the file. Returns the errno of the first failure, or 0 if
  /// there was none.
  int finish();

 private:
  class Buffer : public __gnu_cxx::stdio_filebuf<char> {
   public:
    explicit Buffer(Fd file) : stdio_filebuf(file.release(), std::ios::out) {}
    int error() const { return error_; }
    void note_failure();

   protected:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize size) override;
    int sync() override;

   private:
    int error_ = 0;
  };

  Buffer buffer_;
};

}  // namespace tutti::base
