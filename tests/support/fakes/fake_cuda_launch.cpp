// SPDX-License-Identifier: Apache-2.0
// The functions that nvcc's objects call internally are not documented; their names and arguments are those
// of crt/host_runtime.h in CUDA 12 and 13, the containers those of fatbinary_section.h.
#include "support/fakes/fake_cuda_launch.hpp"

#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

namespace h5feed::test {
namespace {

struct Wrapper {
  std::int32_t magic;
  std::int32_t version;
  const unsigned char* container;
  void* unused;
};

// Registration runs in static constructors, in unknown order.
struct Registry {
  std::vector<const Wrapper*> objects;
  std::map<const void*, std::string> kernels;
  std::function<cudaError_t(const KernelLaunch&)> launched;
};
Registry& registry() {
  static Registry instance;
  return instance;
}

template <typename T>
T number_at(const unsigned char* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

// A container: magic, version (16 bit), bytes of this header (16 bit), bytes of all entries (64 bit); an
// entry: kind (16 bit), flags (16 bit), bytes of its header (32 bit), bytes of its content (64 bit), and at
// byte 28 the architecture (32 bit).
std::set<std::string> code_in(const unsigned char* container) {
  constexpr std::uint32_t kMagic = 0xBA55ED50;
  constexpr std::uint16_t kPtx = 1, kMachineCode = 2;
  if (number_at<std::uint32_t>(container) != kMagic) throw std::runtime_error("no container of GPU code");
  const unsigned char* entry = container + number_at<std::uint16_t>(container + 6);
  const unsigned char* const end = entry + number_at<std::uint64_t>(container + 8);
  std::set<std::string> code;
  while (entry < end) {
    const auto kind = number_at<std::uint16_t>(entry);
    const std::string architecture = std::to_string(number_at<std::uint32_t>(entry + 28));
    if (kind == kPtx) code.insert("compute_" + architecture);
    if (kind == kMachineCode) code.insert("sm_" + architecture);
    const std::uint64_t bytes = number_at<std::uint32_t>(entry + 4) + number_at<std::uint64_t>(entry + 8);
    if (bytes == 0) throw std::runtime_error("an entry of no size among the GPU code");
    entry += bytes;
  }
  return code;
}

}  // namespace

LaunchListener::LaunchListener(std::function<cudaError_t(const KernelLaunch&)> launched) {
  registry().launched = std::move(launched);
}

LaunchListener::~LaunchListener() { registry().launched = nullptr; }

std::vector<std::set<std::string>> registered_code() {
  std::vector<std::set<std::string>> code;
  for (const Wrapper* wrapper : registry().objects) code.push_back(code_in(wrapper->container));
  return code;
}

}  // namespace h5feed::test

using h5feed::test::registry;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  registry().objects.push_back(static_cast<const h5feed::test::Wrapper*>(wrapper));
  return static_cast<void**>(wrapper);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, void*, void*,
                            void*, void*, int*) {
  registry().kernels[host_function] = name;
}

// Called by kernel<<<…>>>(), which the objects under test do not use.
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*) { return 1; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaErrorUnknown; }
cudaError_t __cudaGetKernel(void**, const void*) { return cudaErrorUnknown; }
cudaError_t __cudaLaunchKernel(void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaErrorUnknown;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  const auto kernel = registry().kernels.find(function);
  return registry().launched({kernel == registry().kernels.end() ? "" : kernel->second, grid, block,
                              arguments, shared_bytes, stream});
}

}  // extern "C"
