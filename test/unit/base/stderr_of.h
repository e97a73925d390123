#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

/// The text that the process writes to stderr while `body` runs.
template <typename Body>
std::string stderr_of(const Body& body) {
  std::FILE* const file = std::tmpfile();
  const int before = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  body();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::fseek(file, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

/// Each with its newline.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}
