#include "base/output_file.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

using tutti::base::Fd;
using tutti::base::OutputFile;

TEST_CASE("a full disk is told as such, whatever errno says by then") {
  for (const std::size_t size : {std::size_t{10}, std::size_t{1} << 20}) {
    OutputFile file(Fd(::open("/dev/full", O_WRONLY)));
    file << std::string(size, 'x');
    errno = 0;
    CHECK(file.finish() == ENOSPC);
  }
}

TEST_CASE("a file that is written without trouble finishes without an error") {
  OutputFile file(Fd(::open("/dev/null", O_WRONLY)));
  file << "text";
  CHECK(file.finish() == 0);
}
