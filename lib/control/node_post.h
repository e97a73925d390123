#pragma once
#include <functional>
#include <vector>

#include "control/segment.h"
#include "net/message_stream.h"

namespace tutti::control {

/// The receiving end of all mailboxes of one node. It belongs to the thread that collects the
/// node's messages: tutti-coord on rank 0's node, and the leader's tutti-link on the other nodes.
class NodePost {
 public:
  explicit NodePost(const Segment& segment);

  /// Takes all messages that ranks have sent, and passes each to `take`, with the local index of
  /// its rank.
  void collect(const std::function<void(int, net::ConstBytes)>& take);
  void deliver(int local_index, net::ConstBytes message);
  /// Writes the messages for which a mailbox had no room before.
  void flush();
  /// The ranks that have announced their departure since the last call, by local index.
  std::vector<int> take_departed();
  /// Returns the members of `ranks` that have begun to close the store since the last call.
  std::vector<int> take_closing(const std::vector<int>& ranks);
  /// Tells the node's ranks that this rank of another node closes the store.
  void note_closing(int rank);

 private:
  struct Box {
    net::MailReceiver up;
    net::MailSender down;
    bool departed = false;
    bool closing = false;
  };
  base::Doorbell& bell(std::size_t local_index) const;

  const Segment& segment_;
  std::vector<Box> boxes_;
  net::Bytes message_;
};

}  // namespace tutti::control
