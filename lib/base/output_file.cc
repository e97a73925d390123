#include "base/output_file.h"

#include <cerrno>
#include <utility>

namespace tutti::base {

void OutputFile::Buffer::note_failure() {
  if (error_ == 0) error_ = errno != 0 ? errno : EIO;
}

OutputFile::Buffer::int_type OutputFile::Buffer::overflow(int_type c) {
  const int_type result = std::filebuf::overflow(c);
  if (traits_type::eq_int_type(result, traits_type::eof())) note_failure();
  return result;
}

std::streamsize OutputFile::Buffer::xsputn(const char* text, std::streamsize size) {
  const std::streamsize written = std::filebuf::xsputn(text, size);
  if (written < size) note_failure();
  return written;
}

int OutputFile::Buffer::sync() {
  const int result = std::filebuf::sync();
  if (result != 0) note_failure();
  return result;
}

OutputFile::OutputFile(Fd file) : std::ostream(nullptr), buffer_(std::move(file)) {
  rdbuf(&buffer_);
}

int OutputFile::finish() {
  flush();
  if (buffer_.is_open() && buffer_.close() == nullptr) buffer_.note_failure();
  return buffer_.error();
}

}  // namespace tutti::base
