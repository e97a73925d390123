#include "control/creations.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "../folder.h"

using tutti::Folder;
using tutti::control::Creation;
using tutti::control::Creations;

TEST_CASE("a rank sees the stores that the others create, and those that they have given up") {
  const Folder folder;
  Creations mine(folder.path(), "job", 0);
  Creations theirs(folder.path(), "job", 1);
  CHECK(mine.of(1) == std::vector<Creation>{});
  const Creation some{{0, 1, 30}, 2};
  const Creation all{{}, 0};
  theirs.begin(some);
  theirs.begin(all);
  CHECK(mine.of(1) == std::vector{some, all});
  CHECK(theirs.of(0) == std::vector<Creation>{});
  theirs.end(some, false);
  theirs.end(all, true);
  Creation given_up = all;
  given_up.given_up = true;
  CHECK(mine.of(1) == std::vector{given_up});
  theirs.begin(some);
  CHECK(mine.of(1) == std::vector{some});
  CHECK_FALSE(Creations(folder.path(), "another job", 0).of(1));
}

TEST_CASE(
    "a rank that cannot write what it creates counts as unknown, and not as creating nothing") {
  const Folder folder;
  Creations mine(folder.path(), "job", 0);
  CHECK_FALSE(mine.of(1));
  Creations theirs(folder.path(), "job", 1);
  // This folder is in the way of the new file.
  std::filesystem::create_directory(folder.path() + "/tutti-job-1.creates.new");
  theirs.begin({{0, 1}, 0});
  CHECK_FALSE(mine.of(1));
  Creations nowhere("", "job", 2);
  nowhere.begin({{0, 1}, 0});
  CHECK_FALSE(nowhere.of(2));
}
