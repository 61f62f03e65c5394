// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/idx_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/format/dataset_info.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

// Largest expansion of deflate (zlib's technical notes), which bounds the sizes that a header may claim.
constexpr std::uint64_t kMostExpansion = 1032;

std::optional<DType> element_type(std::uint8_t code) noexcept {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0B:
      return DType::i16;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

void reverse_elements(std::span<std::byte> bytes, std::size_t element_bytes) {
  for (std::size_t i = 0; i + element_bytes <= bytes.size(); i += element_bytes) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + element_bytes));
  }
}

}  // namespace

// Reads the file's bytes, decompressed if it is gzip. Does not use gzread, which silently ignores data after
// the last gzip member.
class IdxFile::Stream {
 public:
  // Returns null, with `reason` set, if the file cannot be opened.
  static std::unique_ptr<Stream> open(const std::filesystem::path& path, std::string& reason) {
    // O_NONBLOCK: if the path is a FIFO, opening must not wait for a writer.
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) {
      reason = fmt::format("cannot be opened ({})", std::strerror(errno));
      return nullptr;
    }
    if (!S_ISREG(status.st_mode)) {
      reason = "is not a regular file";
      return nullptr;
    }
    std::unique_ptr<Stream> stream(new Stream(std::move(file), static_cast<std::uint64_t>(status.st_size)));
    stream->fill(reason);
    stream->compressed_ =
        stream->raw_.avail_in >= 2 && stream->input_[0] == 0x1F && stream->input_[1] == 0x8B;
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (stream->compressed_ && inflateInit2(&stream->raw_, kGzipOnly) != Z_OK) {
      stream->compressed_ = false;
      reason = "cannot be read (not enough memory)";
    }
    return reason.empty() ? std::move(stream) : nullptr;
  }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (compressed_) inflateEnd(&raw_);
  }

  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  bool compressed() const noexcept { return compressed_; }

  // Returns what a whole gzip file of one member has at its end: the length of its content modulo 2^32.
  // https://www.rfc-editor.org/rfc/rfc1952, section 2.3.1.
  std::uint32_t length_at_end() const noexcept {
    std::array<std::uint8_t, 4> raw{};
    if (file_bytes_ < raw.size() ||
        ::pread(file_.get(), raw.data(), raw.size(), static_cast<off_t>(file_bytes_ - raw.size())) !=
            static_cast<ssize_t>(raw.size())) {
      return 0;
    }
    std::uint32_t length = 0;
    for (std::size_t i = raw.size(); i-- > 0;) length = length << 8U | raw[i];
    return length;
  }

  // Returns the bytes read, fewer only at the end; sets `reason` on damage.
  std::size_t read(std::span<std::byte> out, std::string& reason) {
    std::size_t done = 0;
    while (done < out.size() && reason.empty()) {
      if (raw_.avail_in == 0) fill(reason);
      if (raw_.avail_in == 0) break;
      const std::span<std::byte> rest = out.subspan(done);
      done += compressed_ ? inflate_some(rest, reason) : copy_some(rest);
    }
    return done;
  }

  // Returns whether the file may end here: not within a gzip member.
  bool complete() const noexcept { return !compressed_ || between_members_; }

 private:
  Stream(FileDescriptor file, std::uint64_t file_bytes) : file_(std::move(file)), file_bytes_(file_bytes) {}

  void fill(std::string& reason) {
    ssize_t count = 0;
    do {
      check_interrupted();
      count = ::read(file_.get(), input_.data(), input_.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) reason = std::strerror(errno);
    raw_.next_in = input_.data();
    raw_.avail_in = count > 0 ? static_cast<unsigned>(count) : 0;
  }

  std::size_t copy_some(std::span<std::byte> out) {
    const std::size_t count = std::min<std::size_t>(out.size(), raw_.avail_in);
    std::memcpy(out.data(), raw_.next_in, count);
    raw_.next_in += count;
    raw_.avail_in -= static_cast<unsigned>(count);
    return count;
  }

  std::size_t inflate_some(std::span<std::byte> out, std::string& reason) {
    if (between_members_) inflateReset(&raw_);
    constexpr std::size_t kMostAtOnce = std::size_t{1} << 30U;  // avail_out is an unsigned
    const std::size_t room = std::min(out.size(), kMostAtOnce);
    raw_.next_out = reinterpret_cast<Bytef*>(out.data());
    raw_.avail_out = static_cast<unsigned>(room);
    const int code = inflate(&raw_, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      reason = raw_.msg != nullptr ? raw_.msg : "not a gzip stream";
      if (between_members_) reason = "its gzip stream is followed by something else";
    }
    between_members_ = code == Z_STREAM_END;
    return room - raw_.avail_out;
  }

  FileDescriptor file_;
  std::uint64_t file_bytes_;
  std::vector<Bytef> input_ = std::vector<Bytef>(std::size_t{256} * 1024);
  z_stream raw_{};
  bool compressed_ = false;
  bool between_members_ = false;
};

IdxFile::~IdxFile() = default;

IdxFile::IdxFile(std::filesystem::path path) : path_(std::move(path)) {
  std::string reason;
  stream_ = Stream::open(path_, reason);
  if (!stream_) refuse(reason);

  std::array<std::byte, 4> magic{};
  read_bytes(magic, "its header");
  const auto type = element_type(std::to_integer<std::uint8_t>(magic[2]));
  const auto dimensions = std::to_integer<std::size_t>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !type || dimensions == 0) {
    refuse(fmt::format("is not an IDX file (it starts with {:02x} {:02x} {:02x} {:02x})",
                       std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]),
                       std::to_integer<int>(magic[2]), std::to_integer<int>(magic[3])));
  }
  dtype_ = *type;

  std::uint64_t bytes = size_of(dtype_);
  bool overflow = false;
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::array<std::byte, 4> raw{};
    read_bytes(raw, "its header");
    std::uint64_t extent = 0;
    for (const std::byte b : raw) extent = extent << 8U | std::to_integer<std::uint64_t>(b);
    if (extent == 0) refuse(fmt::format("holds nothing: its dimension {} is 0", i));
    overflow =
        overflow || extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / bytes;
    if (!overflow) bytes *= extent;
    shape_.push_back(extent);
  }
  const std::uint64_t header_bytes = 4 + 4 * dimensions;
  const std::uint64_t most =
      stream_->compressed() ? stream_->file_bytes() * kMostExpansion : stream_->file_bytes();
  if (overflow || bytes > most || header_bytes > most - bytes) {
    refuse(fmt::format("is cut short or damaged: its header promises {} {}, more than its {} can hold",
                       format_shape(shape_), name_of(dtype_), format_bytes(stream_->file_bytes())));
  }
  if (!stream_->compressed() && header_bytes + bytes < stream_->file_bytes()) refuse_more();
  // Otherwise the file is damaged, or it has several members.
  if (stream_->compressed() && stream_->length_at_end() != static_cast<std::uint32_t>(header_bytes + bytes)) {
    read_ahead(header_bytes, bytes);
  }
}

void IdxFile::read_ahead(std::uint64_t header_bytes, std::uint64_t bytes) {
  std::vector<std::byte> block(std::size_t{256} * 1024);
  while (bytes > 0) {
    const std::size_t count = std::min<std::uint64_t>(block.size(), bytes);
    read_bytes(std::span(block).first(count), "its data");
    bytes -= count;
  }
  expect_end();
  std::string reason;
  stream_ = Stream::open(path_, reason);
  if (!stream_) refuse(reason);
  read_bytes(std::span(block).first(static_cast<std::size_t>(header_bytes)), "its header");
}

void IdxFile::read(std::span<std::byte> out) {
  read_bytes(out, "its data");
  if constexpr (std::endian::native == std::endian::little) reverse_elements(out, size_of(dtype_));
}

void IdxFile::expect_end() {
  std::array<std::byte, 1> more{};
  std::string reason;
  const std::size_t count = stream_->read(more, reason);
  if (!reason.empty()) refuse(fmt::format("is damaged ({})", reason));
  if (count != 0) refuse_more();
  if (!stream_->complete()) refuse("is cut short: it ends within its checksum");
}

void IdxFile::read_bytes(std::span<std::byte> out, const char* what) {
  std::string reason;
  const std::size_t count = stream_->read(out, reason);
  if (!reason.empty()) refuse(fmt::format("is damaged ({})", reason));
  if (count < out.size()) refuse(fmt::format("is cut short: it ends within {}", what));
}

void IdxFile::refuse_more() const {
  refuse(fmt::format("continues after the {} {} that its header promises", format_shape(shape_),
                     name_of(dtype_)));
}

void IdxFile::refuse(const std::string& reason) const {
  throw FileError(fmt::format("{} {}; check the file or fetch it again", path_.string(), reason));
}

}  // namespace h5feed::cli
