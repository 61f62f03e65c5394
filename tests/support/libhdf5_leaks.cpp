// SPDX-License-Identifier: Apache-2.0
// What libhdf5 itself leaks when it gives up on damaged metadata is left aside by LeakSanitizer; h5feed's
// own frames are reported. Linked where tests hand damaged files to libhdf5.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() { return "leak:libhdf5\n"; }
