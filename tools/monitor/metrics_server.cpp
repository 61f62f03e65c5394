// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/metrics_server.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kLongestRequest = 8192;
constexpr std::size_t kMostConnections = 16;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const ListenAddress& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
  if (code == 0) return {found, &::freeaddrinfo};
  throw OptionError(fmt::format("--listen: \"{}\" is no numeric address ({}); give one such as 127.0.0.1",
                                where.host, ::gai_strerror(code)));
}

std::uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

std::string response(const char* status, std::string_view type, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     status, type, body.size(), body);
}

}  // namespace

ListenAddress parse_listen(std::string_view text) {
  ListenAddress where;
  const auto colon = text.rfind(':');
  std::string_view port = text;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
      port = {};  // an IPv6 address without brackets
    }
    if (host.empty()) port = {};
    where.host = host;
  }
  const bool digits =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits || std::stoi(std::string(port)) > UINT16_MAX) {
    throw OptionError(fmt::format(
        "--listen \"{}\": give a port, or ADDRESS:PORT, such as 9400, 0.0.0.0:9400 or [::1]:9400", text));
  }
  where.port = port;
  return where;
}

MetricsServer::MetricsServer(const ListenAddress& where, std::chrono::milliseconds patience)
    : patience_(patience), stop_(::eventfd(0, EFD_CLOEXEC)) {
  const Addresses found = addresses_of(where);
  socket_ = FileDescriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (socket_.valid()) ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (!socket_.valid() || !stop_.valid() || ::bind(socket_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket_.get(), SOMAXCONN) != 0) {
    throw Error(fmt::format("--listen: cannot listen at {} port {} ({}); choose another one", where.host,
                            where.port, std::strerror(errno)));
  }
  const bool brackets = where.host.find(':') != std::string::npos;
  url_ = fmt::format("http://{}{}{}:{}/metrics", brackets ? "[" : "", where.host, brackets ? "]" : "",
                     port_of(socket_.get()));
  thread_ = std::thread([this] { serve(); });
}

MetricsServer::~MetricsServer() {
  const std::uint64_t one = 1;
  // An eventfd takes this write at any time.
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void MetricsServer::set(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

// A request that is being received, or a reply that is being sent.
struct MetricsServer::Connection {
  FileDescriptor socket;
  Clock::time_point deadline;
  std::string request = {};
  std::string reply = {};
  std::size_t sent = 0;

  // Returns false at the end of the connection.
  bool receive() {
    std::array<char, 1024> some = {};
    const ssize_t got = ::recv(socket.get(), some.data(), some.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    request.append(some.data(), static_cast<std::size_t>(got));
    return got > 0 && request.size() <= kLongestRequest;
  }
  bool complete() const { return request.find("\r\n\r\n") != std::string::npos; }

  // Returns false once everything is sent, or if the other end is gone.
  bool send() {
    const ssize_t bytes = ::send(socket.get(), reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
    if (bytes < 0) return errno == EAGAIN || errno == EINTR;
    sent += static_cast<std::size_t>(bytes);
    return sent < reply.size();
  }
};

std::string MetricsServer::reply_to(std::string_view request) {
  if (!request.starts_with("GET ")) return response("405 Method Not Allowed", "text/plain", "only GET\n");
  if (!request.starts_with("GET /metrics ") && !request.starts_with("GET /metrics?"))
    return response("404 Not Found", "text/plain", "the metrics are at /metrics\n");
  const std::lock_guard lock(mutex_);
  return response("200 OK", "text/plain; version=0.0.4; charset=utf-8", text_);
}

void MetricsServer::serve() {
  std::deque<Connection> connections;  // the oldest first
  for (;;) {
    std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    for (const Connection& each : connections)
      polled.push_back({each.socket.get(), static_cast<short>(each.reply.empty() ? POLLIN : POLLOUT), 0});
    int milliseconds = -1;  // no limit
    if (!connections.empty()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(connections.front().deadline - Clock::now());
      milliseconds = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }
    const int ready = ::poll(polled.data(), polled.size(), milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || polled[0].revents != 0) return;
    for (std::size_t i = 0; i < connections.size(); ++i) {
      Connection& each = connections[i];
      if (polled[2 + i].revents == 0) continue;
      const bool goes_on = each.reply.empty() ? each.receive() : each.send();
      if (!goes_on) each.socket.reset();
      if (goes_on && each.reply.empty() && each.complete()) each.reply = reply_to(each.request);
    }
    if (polled[1].revents != 0) {
      FileDescriptor accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (accepted.valid()) connections.push_back({std::move(accepted), Clock::now() + patience_});
    }
    std::erase_if(connections, [](const Connection& each) {
      return !each.socket.valid() || each.deadline <= Clock::now();
    });
    if (connections.size() > kMostConnections) connections.pop_front();
  }
}

}  // namespace h5feed::cli
