#include "net/message_stream.h"

#include <fmt/format.h>

#include "tutti/error.h"

namespace tutti::net {

void check_message_length(std::size_t bytes) {
  if (bytes > max_message_bytes) {
    throw Error(ErrorCode::internal, fmt::format("a message has {} bytes, but may have at most {}",
                                                 bytes, max_message_bytes));
  }
}

bool MessageReader::next(Bytes& message) {
  const ConstBytes rest = stream_.rest();
  if (rest.size() < message_length_bytes) return false;
  const std::size_t length = load_u32(rest.data());
  check_message_length(length);
  if (rest.size() - message_length_bytes < length) return false;
  const ConstBytes body = rest.subspan(message_length_bytes, length);
  message.assign(body.begin(), body.end());
  stream_.use(message_length_bytes + length);
  return true;
}

bool MailSender::send(ConstBytes message) {
  check_message_length(message.size());
  std::byte length[message_length_bytes];
  store_u32(length, static_cast<std::uint32_t>(message.size()));
  backlog_.feed(length);
  backlog_.feed(message);
  return flush();
}

bool MailSender::flush() {
  bool wrote = false;
  while (!backlog_.empty()) {
    const std::size_t count = ring_.write(backlog_.rest());
    backlog_.use(count);
    wrote = wrote || count > 0;
    if (!backlog_.empty() && ring_.ask_for_room()) break;
  }
  return wrote;
}

bool MailReceiver::take_in() {
  const auto pieces = ring_.readable();
  const std::size_t count = pieces[0].size() + pieces[1].size();
  if (count == 0) return false;
  for (const ConstBytes piece : pieces) reader_.feed(piece);
  ring_.consume(count);
  return ring_.take_request_for_room();
}

}  // namespace tutti::net
