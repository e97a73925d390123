#include "p2p/mpi_carrier.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "p2p/eager_sends.h"

namespace tutti::p2p {
namespace {

/// The communicator's other messages have lower tags, and every MPI has tags up to the last one.
constexpr int first_tag = 64;
constexpr int stores_with_tags = 8192;
/// Elements travel in pieces of several messages. Two pieces are under way at once in each
/// direction: while one is copied, the link carries the other.
constexpr std::size_t piece_bytes = 4 * mpi::message_bytes;
constexpr std::size_t most_pieces = 2;

}  // namespace

struct MpiCarrier::Buffers {
  std::deque<Frame> frames;
  std::vector<Frame*> free_frames;
  std::deque<std::vector<std::byte>> pieces;
  std::vector<std::byte*> free_pieces;
  std::deque<Payload> inboxes;  ///< one for each rank that is open
  std::unordered_map<const Payload*, std::unique_ptr<Payload>> eager;  ///< on their way
  std::size_t eager_bytes = 0;

  Frame* take_frame() {
    if (free_frames.empty()) free_frames.push_back(&frames.emplace_back());
    Frame* const frame = free_frames.back();
    free_frames.pop_back();
    return frame;
  }
  std::byte* take_piece() {
    if (free_pieces.empty()) free_pieces.push_back(pieces.emplace_back(piece_bytes).data());
    std::byte* const piece = free_pieces.back();
    free_pieces.pop_back();
    return piece;
  }
  Payload* take_inbox() { return &inboxes.emplace_back(sizeof(Frame) + EagerSends::largest); }
  Payload* keep(const Frame& frame, std::span<const std::byte> elements) {
    auto kept = std::make_unique<Payload>(sizeof frame + elements.size());
    std::memcpy(kept->data(), &frame, sizeof frame);
    std::copy(elements.begin(), elements.end(), kept->begin() + sizeof frame);
    eager_bytes += kept->size();
    Payload* const at = kept.get();
    eager[at] = std::move(kept);
    return at;
  }
  void drop(const Payload* sent) {
    eager_bytes -= sent->size();
    eager.erase(sent);
  }
};

MpiCarrier::MpiCarrier(const BetweenNodes& where)
    : frame_tag_(first_tag + 2 * (where.store % stores_with_tags)),
      data_tag_(frame_tag_ + 1),
      buffers_(std::make_shared<Buffers>()),
      peers_(static_cast<std::size_t>(where.communicator->size())),
      requests_(*where.communicator) {
  requests_.hold(buffers_);
}

void MpiCarrier::open(int rank, Use) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.inbox != nullptr) return;
  peer.inbox = buffers_->take_inbox();
  peer.hearing = requests_.receive(rank, frame_tag_, *peer.inbox);
  open_.push_back(rank);
}

void MpiCarrier::post(int to, const Frame& frame, std::span<const std::byte> elements) {
  SentFrame sent;
  if (elements.empty()) {
    sent.frame = buffers_->take_frame();
    *sent.frame = frame;
    sent.id = requests_.send(to, frame_tag_, std::as_bytes(std::span(sent.frame, 1)));
  } else {
    sent.with_elements = buffers_->keep(frame, elements);
    sent.id = requests_.send(to, frame_tag_, *sent.with_elements);
  }
  peers_[static_cast<std::size_t>(to)].outbox.push_back(sent);
  ++sending_;
  bytes_sent_ += sizeof frame + elements.size();
}

void MpiCarrier::send(int to, std::span<const std::byte> data) {
  if (data.empty()) return;
  peers_[static_cast<std::size_t>(to)].leaving.push_back(data);
  ++sending_;
  ++moving_;
}

void MpiCarrier::receive(int from, TransferId call, std::span<std::byte> data) {
  peers_[static_cast<std::size_t>(from)].coming.push_back({call, data});
  ++moving_;
}

bool MpiCarrier::step(News& news) {
  bool moved = requests_.progress();
  for (const int rank : open_) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    moved |= take_frames(rank, peer, news);
    moved |= forget_sent(peer);
    moved |= move_out(rank, peer, news);
    moved |= move_in(rank, peer, news);
  }
  return moved;
}

bool MpiCarrier::take_frames(int from, Peer& peer, News& news) {
  bool moved = false;
  while (requests_.take_finished(peer.hearing)) {
    Letter letter{.frame = {}, .from = from};
    std::memcpy(&letter.frame, peer.inbox->data(), sizeof letter.frame);
    if (letter.frame.kind == Frame::Kind::eager) {
      const auto elements =
          std::span(*peer.inbox).subspan(sizeof letter.frame, letter.frame.bytes());
      letter.elements.assign(elements.begin(), elements.end());
    }
    news.letters.push_back(std::move(letter));
    peer.hearing = requests_.receive(from, frame_tag_, *peer.inbox);
    moved = true;
    if (!requests_.progress()) break;
  }
  return moved;
}

bool MpiCarrier::forget_sent(Peer& peer) {
  bool moved = false;
  while (!peer.outbox.empty() && requests_.take_finished(peer.outbox.front().id)) {
    const SentFrame& sent = peer.outbox.front();
    if (sent.frame != nullptr) {
      buffers_->free_frames.push_back(sent.frame);
    } else {
      buffers_->drop(sent.with_elements);
    }
    peer.outbox.pop_front();
    --sending_;
    moved = true;
  }
  return moved;
}

bool MpiCarrier::move_out(int to, Peer& peer, News& news) {
  bool moved = false;
  while (!peer.out.empty() && requests_.take_finished(peer.out.front().id)) {
    buffers_->free_pieces.push_back(peer.out.front().buffer);
    peer.out.pop_front();
    --sending_;
    moved = true;
  }
  while (!peer.leaving.empty() && peer.out.size() < most_pieces) {
    std::span<const std::byte>& rest = peer.leaving.front();
    const auto piece = rest.first(std::min(rest.size(), piece_bytes));
    std::byte* const buffer = buffers_->take_piece();
    std::memcpy(buffer, piece.data(), piece.size());
    peer.out.push_back({requests_.send(to, data_tag_, {buffer, piece.size()}), buffer, {}});
    ++sending_;
    bytes_sent_ += piece.size();
    rest = rest.subspan(piece.size());
    if (rest.empty()) {
      peer.leaving.pop_front();
      --sending_;
      --moving_;
    }
    moved = true;
  }
  if (moved) news.sent_to.push_back(to);
  return moved;
}

bool MpiCarrier::move_in(int from, Peer& peer, News& news) {
  bool moved = false;
  while (!peer.in.empty() && requests_.take_finished(peer.in.front().id)) {
    const Piece& piece = peer.in.front();
    std::memcpy(piece.into.data(), piece.buffer, piece.into.size());
    buffers_->free_pieces.push_back(piece.buffer);
    peer.in.pop_front();
    --peer.coming.front().pieces;
    moved = true;
    note_arrived(peer, news);
  }
  if (moved) news.received_from.push_back(from);
  // Transfers come one after the other, so only the one that was asked for last may be incomplete.
  for (Incoming& next : peer.coming) {
    while (!next.rest.empty() && peer.in.size() < most_pieces) {
      const auto into = next.rest.first(std::min(next.rest.size(), piece_bytes));
      std::byte* const buffer = buffers_->take_piece();
      peer.in.push_back({requests_.receive(from, data_tag_, {buffer, into.size()}), buffer, into});
      next.rest = next.rest.subspan(into.size());
      ++next.pieces;
      moved = true;
    }
    if (!next.rest.empty()) break;
  }
  return note_arrived(peer, news) || moved;
}

bool MpiCarrier::note_arrived(Peer& peer, News& news) {
  bool any = false;
  while (!peer.coming.empty() && peer.coming.front().rest.empty() &&
         peer.coming.front().pieces == 0) {
    news.arrived.push_back(peer.coming.front().call);
    peer.coming.pop_front();
    --moving_;
    any = true;
  }
  return any;
}

std::size_t MpiCarrier::buffer_bytes() const {
  return buffers_->pieces.size() * piece_bytes + buffers_->frames.size() * sizeof(Frame) +
         buffers_->inboxes.size() * (sizeof(Frame) + EagerSends::largest) + buffers_->eager_bytes;
}

}  // namespace tutti::p2p
