// SPDX-License-Identifier: Apache-2.0
// Makes LeakSanitizer ignore what libhdf5 itself leaks when it gives up on damaged metadata; leaks from
// h5feed's own frames are reported. Linked to tests that pass damaged files to libhdf5.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() { return "leak:libhdf5\n"; }
