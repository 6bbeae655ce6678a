# Turns the CUDA language on for probe/cuda when GPUINFER_CUDA and the machine allow it; GPUINFER_HAVE_CUDA says so.

set(GPUINFER_GPUS all CACHE STRING "Compute capabilities that the CUDA probe is built for, as 80;90; all, or none: no CUDA probe")

set(GPUINFER_HAVE_CUDA OFF)

if(NOT GPUINFER_CUDA STREQUAL "OFF" AND NOT GPUINFER_GPUS STREQUAL "none")
  find_program(GPUINFER_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(GPUINFER_NVCC)
  if(GPUINFER_NVCC)
    set(GPUINFER_HAVE_CUDA ON)
  elseif(GPUINFER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUINFER_CUDA is ON and nvcc is neither in PATH nor in /usr/local/cuda/bin; "
                        "install the CUDA toolkit or set CMAKE_CUDA_COMPILER or GPUINFER_NVCC.")
  endif()
endif()

if(GPUINFER_HAVE_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${GPUINFER_NVCC}")
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Machine code for what this nvcc knows of these, and PTX of the newest for GPUs to come.
    execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-code OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[0-9]+" known "${known}")
    list(JOIN known "|" known)
    set(architectures ${GPUINFER_GPUS})
    list(FILTER architectures INCLUDE REGEX "^(${known})$")
    if(NOT architectures)  # or where it knows none of the GPUs that are wanted
      set(architectures 75 80 86 89 90 100 120)
      list(FILTER architectures INCLUDE REGEX "^(${known})$")
    endif()
    list(GET architectures -1 newest)
    list(TRANSFORM architectures APPEND "-real" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
    list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
  endif()
  enable_language(CUDA)
  message(STATUS "CUDA probe: yes, with ${CMAKE_CUDA_COMPILER} for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA probe: no (GPUINFER_CUDA is ${GPUINFER_CUDA}, GPUINFER_GPUS ${GPUINFER_GPUS})")
endif()
