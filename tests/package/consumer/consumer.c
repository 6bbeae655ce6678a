/* SPDX-FileCopyrightText: The gpuinfer authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * consumer_in_c DESCRIPTION TARGET LINES STEP ROUNDS: the outcomes of a chase, `.` and `M`, and the counts on a second
 * line. */
#include <gpuinfer.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(gpuinfer_error* error) {
  fprintf(stderr, "%s\n", gpuinfer_error_text(error));
  gpuinfer_error_close(error);
  return 1;
}

int main(int count, char** words) {
  gpuinfer_error* error = NULL;
  gpuinfer_cache* cache;
  gpuinfer_statistics statistics = {sizeof statistics, 0, 0, 0, 0};
  unsigned long lines, step, rounds, i;
  if (count != 6 || gpuinfer_api_version() < GPUINFER_API_VERSION) {
    return 2;
  }
  lines = strtoul(words[3], NULL, 10);
  step = strtoul(words[4], NULL, 10);
  rounds = strtoul(words[5], NULL, 10);
  cache = gpuinfer_cache_open(words[1], words[2], &error);
  if (cache == NULL) {
    return fail(error);
  }
  for (i = 0; i < lines * rounds; ++i) {
    gpuinfer_access_result result = {sizeof result, GPUINFER_HIT, 0, 0, 0, 0};
    if (gpuinfer_cache_access(cache, i % lines * step, GPUINFER_LOAD, &result, &error) != GPUINFER_OK) {
      return fail(error);
    }
    putchar(result.outcome == GPUINFER_HIT ? '.' : 'M');
  }
  gpuinfer_cache_statistics(cache, &statistics);
  printf("\n%lu %lu\n", (unsigned long)statistics.accesses, (unsigned long)statistics.hits);
  gpuinfer_cache_close(cache);
  return 0;
}
