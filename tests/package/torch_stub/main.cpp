// SPDX-License-Identifier: Apache-2.0
// Compiles only with the flags that the stub package asks for, and without those it must not pass on.
#ifdef EXPECT_FLAGS_OF_TORCH
static_assert(__cplusplus > 202002L, "the C++ standard that Torch asks for");
static_assert(_GLIBCXX_USE_CXX11_ABI == 1, "the ABI that Torch is built with");
#endif
#ifdef TORCH_CHANGED_FLAGS_OF_ALL
#error "the flags of targets that do not use Torch were changed"
#endif

int main() { return 0; }
