#include "tools/idx_file.hpp"

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
#include "base/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/dataset_info.hpp"

namespace h5feed::cli {
namespace {

// Deflate cannot expand more than this (zlib's technical notes), which bounds what a header may claim.
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

// Bytes of the file, uncompressed by zlib where it is gzip (gzread passes other content through).
class IdxFile::Stream {
 public:
  // Null, with `reason` set, where the file cannot be opened.
  static std::unique_ptr<Stream> open(const std::filesystem::path& path, std::string& reason) {
    // O_NONBLOCK: nobody may ever write to what turns out to be a FIFO.
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
    // gzclose closes the descriptor it was given.
    const int duplicate = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
    gzFile handle = duplicate < 0 ? nullptr : gzdopen(duplicate, "rb");
    if (handle == nullptr) {
      if (duplicate >= 0) ::close(duplicate);
      reason = "cannot be read (not enough memory)";
      return nullptr;
    }
    constexpr unsigned kBufferBytes = 256 * 1024;
    gzbuffer(handle, kBufferBytes);
    return std::unique_ptr<Stream>(new Stream(handle, static_cast<std::uint64_t>(status.st_size)));
  }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { gzclose(handle_); }

  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  bool compressed() const noexcept { return gzdirect(handle_) == 0; }

  // Bytes read, fewer only at the end; sets `reason` on damage.
  std::size_t read(std::span<std::byte> out, std::string& reason) {
    std::size_t done = 0;
    while (done < out.size()) {
      constexpr std::size_t kMostAtOnce = std::size_t{1} << 30U;  // gzread takes an unsigned, returns an int
      const auto request = static_cast<unsigned>(std::min(out.size() - done, kMostAtOnce));
      const int count = gzread(handle_, out.data() + done, request);
      if (count < 0) {
        int code = 0;
        reason = gzerror(handle_, &code);
        // zlib names the file its own way, "<fd:4>: ".
        if (const auto colon = reason.find(": "); colon != std::string::npos) reason.erase(0, colon + 2);
        if (code == Z_ERRNO) reason = std::strerror(errno);
        break;
      }
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  Stream(gzFile handle, std::uint64_t file_bytes) : handle_(handle), file_bytes_(file_bytes) {}

  gzFile handle_;
  std::uint64_t file_bytes_;
};

IdxFile::IdxFile(IdxFile&&) noexcept = default;
IdxFile& IdxFile::operator=(IdxFile&&) noexcept = default;
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
  if (count != 0) {
    refuse(fmt::format("goes on behind the {} {} that its header promises", format_shape(shape_),
                       name_of(dtype_)));
  }
}

void IdxFile::read_bytes(std::span<std::byte> out, const char* what) {
  std::string reason;
  const std::size_t count = stream_->read(out, reason);
  if (!reason.empty()) refuse(fmt::format("is damaged ({})", reason));
  if (count < out.size()) refuse(fmt::format("is cut short: it ends within {}", what));
}

void IdxFile::refuse(const std::string& reason) const {
  throw FileError(fmt::format("{} {}; check the file or fetch it again", path_.string(), reason));
}

}  // namespace h5feed::cli
