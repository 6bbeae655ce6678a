/* SPDX-FileCopyrightText: The gpuinfer authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The reference simulator of a cache for programs in C, and all that can call C: libgpuinfer.
 *
 *     gpuinfer_error* error = NULL;
 *     gpuinfer_cache* cache = gpuinfer_cache_open("gpu.yaml", "L1tex", &error);
 *     if (cache == NULL) { puts(gpuinfer_error_text(error)); gpuinfer_error_close(error); return 1; }
 *     gpuinfer_access_result result = {sizeof result};
 *     gpuinfer_cache_access(cache, address, GPUINFER_LOAD, &result, NULL);
 *     gpuinfer_cache_close(cache);
 *
 * Functions of one cache may be called from several threads at once; each call is done before the next begins. No
 * function throws, and no handle is shared between caches. Where a function can fail, `error` may be NULL; else it is
 * set on failure alone, to a handle that the caller closes. Structs begin with their size, which the caller sets, so
 * that a later version can add members at the end. */
#ifndef GPUINFER_H
#define GPUINFER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GPUINFER_API __attribute__((visibility("default")))
#else
#define GPUINFER_API
#endif

/* A program that was built with this version works with every library of the same version and later ones. */
#define GPUINFER_API_VERSION 1
GPUINFER_API uint32_t gpuinfer_api_version(void);

typedef struct gpuinfer_cache gpuinfer_cache;
typedef struct gpuinfer_snapshot gpuinfer_snapshot;
typedef struct gpuinfer_error gpuinfer_error;

typedef enum gpuinfer_status { GPUINFER_OK = 0, GPUINFER_FAILED = 1 } gpuinfer_status;

/* What is not known of a GPU fails: stores where the profile has no `store`, and atomics, of which no profile says what
 * they do. The cache is then as it was. */
typedef enum gpuinfer_access_kind { GPUINFER_LOAD = 0, GPUINFER_STORE = 1, GPUINFER_ATOMIC = 2 } gpuinfer_access_kind;

typedef enum gpuinfer_outcome {
  GPUINFER_HIT = 0,
  GPUINFER_SECTOR_MISS = 1, /* the line is there, the sector is not */
  GPUINFER_LINE_MISS = 2
} gpuinfer_outcome;

typedef struct gpuinfer_access_result {
  size_t size; /* sizeof(gpuinfer_access_result), set by the caller */
  gpuinfer_outcome outcome;
  uint32_t set;
  int32_t way;             /* where the line lies afterwards; -1: nowhere */
  int32_t has_victim;      /* 1: a line had to go */
  uint64_t victim_address; /* its first byte */
} gpuinfer_access_result;

/* The form of a cache, the same at every carve-out. */
typedef struct gpuinfer_geometry {
  size_t size; /* sizeof(gpuinfer_geometry), set by the caller */
  uint64_t line_bytes;
  uint64_t sector_bytes; /* line_bytes where lines have no sectors */
  uint32_t sets;
  uint32_t most_ways;   /* of any set at any carve-out */
  int32_t knows_stores; /* 0: GPUINFER_STORE fails */
} gpuinfer_geometry;

/* Since the cache was opened. Fills count as nothing. */
typedef struct gpuinfer_statistics {
  size_t size; /* sizeof(gpuinfer_statistics), set by the caller */
  uint64_t accesses;
  uint64_t hits;
  uint64_t sector_misses;
  uint64_t line_misses;
} gpuinfer_statistics;

/* One sentence: what, where, what to do. It lives as long as the handle. */
GPUINFER_API const char* gpuinfer_error_text(const gpuinfer_error* error);
GPUINFER_API void gpuinfer_error_close(gpuinfer_error* error);

/* A cache of a profile or another description, `L1tex` and so on, empty. NULL where the file cannot be read, lacks the
 * cache, or does not know a leaf that a simulation needs. */
GPUINFER_API gpuinfer_cache* gpuinfer_cache_open(const char* profile, const char* target, gpuinfer_error** error);

/* The same while `carveout_kb` are set aside as shared memory; `seed` drives the chance of stochastic policies. */
GPUINFER_API gpuinfer_cache* gpuinfer_cache_open_at(const char* profile, const char* target, uint32_t carveout_kb,
                                                    uint64_t seed, gpuinfer_error** error);

/* Another one of the same description, empty, without reading the file again: what each SM of a GPU has.
 * `carveout_kb` NULL: as `other`. */
GPUINFER_API gpuinfer_cache* gpuinfer_cache_open_like(const gpuinfer_cache* other, const uint32_t* carveout_kb,
                                                      uint64_t seed, gpuinfer_error** error);
GPUINFER_API void gpuinfer_cache_close(gpuinfer_cache* cache);

GPUINFER_API gpuinfer_status gpuinfer_cache_geometry(const gpuinfer_cache* cache, gpuinfer_geometry* geometry);

/* One access. What misses is brought at once. `result` may be NULL. */
GPUINFER_API gpuinfer_status gpuinfer_cache_access(gpuinfer_cache* cache, uint64_t address, gpuinfer_access_kind kind,
                                                   gpuinfer_access_result* result, gpuinfer_error** error);

/* Loads in order. `outcomes` has room for `count` values of gpuinfer_outcome, or is NULL. */
GPUINFER_API gpuinfer_status gpuinfer_cache_play(gpuinfer_cache* cache, const uint64_t* addresses, size_t count,
                                                 uint8_t* outcomes, gpuinfer_error** error);

/* What a load would find; `way` is where its line lies, and there is no victim. The cache stays as it is, and nothing
 * is counted. */
GPUINFER_API gpuinfer_status gpuinfer_cache_probe(gpuinfer_cache* cache, uint64_t address,
                                                  gpuinfer_access_result* result, gpuinfer_error** error);

/* Brings what a load of this address would bring, without counting it. */
GPUINFER_API gpuinfer_status gpuinfer_cache_fill(gpuinfer_cache* cache, uint64_t address, gpuinfer_error** error);

/* No line is there afterwards. The replacement state stays, or with `as_new` is as when the cache was opened. */
GPUINFER_API gpuinfer_status gpuinfer_cache_invalidate(gpuinfer_cache* cache, int as_new, gpuinfer_error** error);

GPUINFER_API gpuinfer_status gpuinfer_cache_statistics(gpuinfer_cache* cache, gpuinfer_statistics* statistics);

/* All that decides what comes next, and the statistics. A snapshot fits the cache that it was taken from and no other;
 * it outlives the cache, and is then good for nothing but to be closed. NULL on failure. */
GPUINFER_API gpuinfer_snapshot* gpuinfer_cache_snapshot(gpuinfer_cache* cache, gpuinfer_error** error);
GPUINFER_API gpuinfer_status gpuinfer_cache_restore(gpuinfer_cache* cache, const gpuinfer_snapshot* snapshot,
                                                    gpuinfer_error** error);
GPUINFER_API void gpuinfer_snapshot_close(gpuinfer_snapshot* snapshot);

#ifdef __cplusplus
}
#endif

#endif
