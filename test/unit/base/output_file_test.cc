#include "base/output_file.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

using tutti::base::OutputFile;

TEST_CASE("a full disk is told as such, whatever errno says by then") {
  for (const std::size_t size : {std::size_t{10}, std::size_t{1} << 20}) {
    OutputFile file("/dev/full");
    file << std::string(size, 'x');
    errno = 0;
    CHECK(file.finish() == ENOSPC);
  }
}

TEST_CASE("a file that cannot be opened is told with its reason") {
  OutputFile file("/no/such/folder/trace.json");
  file << "text";
  CHECK(file.finish() == ENOENT);
}

TEST_CASE("what is written without trouble finishes without an error") {
  OutputFile file("/dev/null");
  file << "text";
  CHECK(file.finish() == 0);
}
