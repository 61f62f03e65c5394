// SPDX-License-Identifier: Apache-2.0
#include "support/programs/swmr_writer.hpp"

#include <fcntl.h>
#include <hdf5.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "support/files/h5_test_file.hpp"

namespace h5feed::test {
namespace {

struct Command {
  char what = 0;
  std::uint64_t rows = 0;
};

// The child's side. Errors end it, which the parent notices.
class Writing {
 public:
  Writing(const std::filesystem::path& path, const SwmrFile& file) : file_(path, {.latest = true}) {
    const std::uint64_t any = ~std::uint64_t{0};
    file_.create({.path = "x",
                  .shape = {0, 6, 5},
                  .max_shape = {any, 6, file.unlimited_width ? any : 5},
                  .chunk = {file.chunk_rows, 6, file.chunk_width},
                  .filters = file.filters});
    file_.create({.path = "y",
                  .file_type = H5T_STD_I64LE,
                  .shape = {0},
                  .max_shape = {any},
                  .chunk = {50},
                  .filters = file.filters});
    x_ = Hid(H5Dopen2(file_.id(), "x", H5P_DEFAULT));
    y_ = Hid(H5Dopen2(file_.id(), "y", H5P_DEFAULT));
    require(H5Fstart_swmr_write(file_.id()), "H5Fstart_swmr_write");
  }

  void extend_x(std::uint64_t rows) {
    const hsize_t shape[] = {rows_x_ += rows, 6, 5};
    require(H5Dset_extent(x_.get(), shape), "H5Dset_extent");
  }

  void append_to_x(std::uint64_t rows) {
    const std::uint64_t first = rows_x_;
    extend_x(rows);
    std::vector<std::byte> values;
    for (std::uint64_t row = first; row < rows_x_; ++row) {
      const std::vector<std::byte> one = SwmrWriter::x(row);
      values.insert(values.end(), one.begin(), one.end());
    }
    const hsize_t start[] = {first, 0, 0};
    const hsize_t count[] = {rows, 6, 5};
    write(x_, start, count, H5T_NATIVE_UCHAR, values.data());
  }

  void append_to_y(std::uint64_t rows) {
    const hsize_t start[] = {rows_y_};
    const hsize_t count[] = {rows};
    const hsize_t shape[] = {rows_y_ += rows};
    require(H5Dset_extent(y_.get(), shape), "H5Dset_extent");
    std::vector<std::int64_t> values;
    for (std::uint64_t row = start[0]; row < rows_y_; ++row) values.push_back(SwmrWriter::y(row));
    write(y_, start, count, H5T_NATIVE_INT64, values.data());
  }

  std::uint64_t rows() const { return rows_x_; }

  void flush() {
    require(H5Dflush(x_.get()), "H5Dflush");
    require(H5Dflush(y_.get()), "H5Dflush");
  }

 private:
  static void write(const Hid& dataset, std::span<const hsize_t> start, std::span<const hsize_t> count,
                    hid_t type, const void* values) {
    const Hid space(H5Dget_space(dataset.get()));
    require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            "H5Sselect_hyperslab");
    const Hid memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
    require(H5Dwrite(dataset.get(), type, memory.get(), space.get(), H5P_DEFAULT, values), "H5Dwrite");
  }

  H5TestFile file_;
  Hid x_;
  Hid y_;
  std::uint64_t rows_x_ = 0;
  std::uint64_t rows_y_ = 0;
};

bool answer(int answers) {
  const char done = '.';
  return ::write(answers, &done, 1) == 1;
}

// Waits for a command if `wait`.
bool has_command(int commands, bool wait) {
  pollfd watched{commands, POLLIN, 0};
  return ::poll(&watched, 1, wait ? -1 : 0) > 0;
}

// Returns after 'q', and when the parent has gone.
void serve(Writing& writing, int commands, int answers) {
  Command command;
  while (answer(answers) && ::read(commands, &command, sizeof command) == sizeof command) {
    switch (command.what) {
      case 'a':
        writing.append_to_x(command.rows);
        writing.append_to_y(command.rows);
        break;
      case 'x':
        writing.append_to_x(command.rows);
        break;
      case 'e':
        writing.extend_x(command.rows);
        break;
      case 'r':
        while (!has_command(commands, writing.rows() >= SwmrWriter::kMostRows)) {
          writing.append_to_x(command.rows);
          writing.append_to_y(command.rows);
          writing.flush();
        }
        break;
      case 'q':
        return;
      default:
        break;
    }
    writing.flush();
  }
}

}  // namespace

SwmrWriter::SwmrWriter(const std::filesystem::path& path, const SwmrFile& file) {
  int commands[2] = {};
  int answers[2] = {};
  if (::pipe2(commands, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0)
    throw std::runtime_error("pipe failed");
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    ::close(commands[1]);
    ::close(answers[0]);
    try {
      Writing writing(path, file);
      serve(writing, commands[0], answers[1]);
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  ::close(commands[0]);
  ::close(answers[1]);
  commands_ = commands[1];
  answers_ = answers[0];
  char done = 0;
  if (::read(answers_, &done, 1) != 1) throw std::runtime_error("the SWMR writer did not start");
}

SwmrWriter::~SwmrWriter() {
  if (pid_ > 0) end(true);
}

void SwmrWriter::run() {
  const Command sent{'r', 3};
  if (::write(commands_, &sent, sizeof sent) != sizeof sent) throw std::runtime_error("the SWMR writer died");
}

void SwmrWriter::command(char what, std::uint64_t rows) {
  const Command sent{what, rows};
  char done = 0;
  // Ended by a command, `run` has an answer of its own.
  if (::write(commands_, &sent, sizeof sent) != sizeof sent || ::read(answers_, &done, 1) != 1 ||
      (what == 's' && ::read(answers_, &done, 1) != 1))
    throw std::runtime_error("the SWMR writer died");
}

void SwmrWriter::end(bool killed) {
  if (killed) ::kill(pid_, SIGKILL);
  ::close(commands_);
  ::close(answers_);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void SwmrWriter::close() {
  const Command sent{'q', 0};
  if (::write(commands_, &sent, sizeof sent) != sizeof sent) throw std::runtime_error("the SWMR writer died");
  char done = 0;
  while (::read(answers_, &done, 1) == 1) {
  }
  end(false);
}

void SwmrWriter::kill() { end(true); }

std::vector<std::byte> SwmrWriter::x(std::uint64_t row) {
  std::vector<std::byte> values;
  for (std::uint64_t i = 0; i < kRowBytes; ++i)
    values.push_back(static_cast<std::byte>(1 + (row * 131 + (row >> 8U) * 17 + i * 7) % 255));
  return values;
}

}  // namespace h5feed::test
