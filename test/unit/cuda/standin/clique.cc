#include "clique.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace standin {

void Clique::strike(int result, const std::string& said) {
  int none = 0;
  if (!error.compare_exchange_strong(none, result)) return;
  const std::size_t length = std::min(said.size(), text.size() - 1);
  std::copy_n(said.begin(), length, text.begin());
  has_text = true;
}

std::string make_clique() {
  std::string name = "/tmp/tutti-standin-nccl-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) return "";
  const bool sized = ::ftruncate(file, sizeof(Clique)) == 0;
  ::close(file);
  return sized ? name : "";
}

Clique* map_clique(const std::string& name) {
  const int file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const mapped = ::mmap(nullptr, sizeof(Clique), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<Clique*>(mapped);  // zeros are its beginning
}

void remove_clique(const std::string& name) {
  ::unlink(name.c_str());
}

}  // namespace standin
