// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/exchange.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/interrupt.hpp"
#include "base/option_spelling.hpp"

namespace h5feed {
namespace {

// A larger reply than any description of a file; results of a known size go into the caller's buffer.
constexpr std::uint64_t kMostReplyBytes = std::uint64_t{2} << 30;

}  // namespace

IsolationError nonsense_error(const std::string& file, const std::string& what) {
  return IsolationError(fmt::format(
      "{}: the process that read it answered with {}, and was ended; the file is damaged or made to do harm, "
      "restore it from a good copy",
      file, what));
}

Exchange::Exchange(int connection, const std::string& file, std::chrono::milliseconds limit)
    : connection_(connection), file_(file), limit_(limit), process_(::getpid()) {}

Exchange::Reply Exchange::run(std::span<const std::byte> request, std::span<std::byte> out) {
  const std::uint64_t request_bytes = request.size();
  send(std::as_bytes(std::span(&request_bytes, 1)));
  send(request);
  std::array<std::byte, kReplyHeadBytes> head = {};
  receive(head);
  Reply reply;
  std::uint64_t size = 0;
  try {
    WireReader reader(head);
    reply.outcome = reader.get<Outcome>();
    size = reader.get<std::uint64_t>();
  } catch (const BadMessage& error) {
    throw nonsense_error(file_, error.what());
  }
  if (reply.outcome == Outcome::done && !out.empty()) {
    if (size != out.size()) throw nonsense_error(file_, "a result of another size");
    receive(out);
    return reply;
  }
  if (size > kMostReplyBytes) throw nonsense_error(file_, "a reply of more than 2 GiB");
  // Memory grows with what arrives, whatever was announced.
  constexpr std::uint64_t kStep = std::uint64_t{16} << 20;
  while (reply.bytes.size() < size) {
    const std::size_t at = reply.bytes.size();
    reply.bytes.resize(static_cast<std::size_t>(std::min(size, at + kStep)));
    receive(std::span(reply.bytes).subspan(at));
  }
  return reply;
}

void Exchange::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_until_ready(POLLOUT);
    } else {
      throw ConnectionClosed();
    }
  }
}

void Exchange::receive(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(connection_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait_until_ready(POLLIN);
    } else {
      throw ConnectionClosed();
    }
  }
}

void Exchange::wait_until_ready(short events) const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
  if (left.count() <= 0) {
    constexpr std::string_view kLimit = "isolation_timeout";
    throw IsolationError(fmt::format(
        "{}: libhdf5 took more than {} s over it and was ended; restore the file from a good copy{}", file_,
        std::chrono::duration<double>(limit_).count(),
        can_be_set(kLimit) ? fmt::format(", or raise {} if it is only large", spelled(kLimit)) : ""));
  }
  check_interrupt();
  // The reply belongs to the process that has sent the request.
  if (::getpid() != process_)
    throw IsolationError(fmt::format(
        "{}: the process was forked while libhdf5 read it for the other one; read it again", file_));
  constexpr std::int64_t kCheckMs = 100;
  pollfd ready{connection_, events, 0};
  ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), kCheckMs)));
}

}  // namespace h5feed
