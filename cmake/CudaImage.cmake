# gpuinfer_cuda_image(NAME HEADERS...): NAME.cu for all architectures as an image that is loaded while the program runs:
# NAME.fatbin, and NAME_image.c with the array gpuinfer_NAME_image.
function(gpuinfer_cuda_image name)
  foreach(architecture ${CMAKE_CUDA_ARCHITECTURES})
    string(REGEX MATCH "[0-9]+" number ${architecture})
    if(architecture MATCHES "virtual")
      list(APPEND code -gencode arch=compute_${number},code=compute_${number})
    else()
      list(APPEND code -gencode arch=compute_${number},code=sm_${number})
    endif()
  endforeach()
  set(strict "")
  if(GPUINFER_WARNINGS_ARE_ERRORS)
    set(strict --Werror=all-warnings)
  endif()
  find_program(GPUINFER_BIN2C bin2c HINTS "${CMAKE_CUDA_COMPILER}/.." REQUIRED)
  mark_as_advanced(GPUINFER_BIN2C)
  add_custom_command(
    OUTPUT ${name}.fatbin ${name}_image.c
    COMMAND "${CMAKE_CUDA_COMPILER}" -std=c++17 ${strict} "-I${PROJECT_SOURCE_DIR}" ${code} -t 2 -fatbin -o
            ${name}.fatbin "${CMAKE_CURRENT_SOURCE_DIR}/${name}.cu"
    COMMAND "${GPUINFER_BIN2C}" --const --type longlong --name gpuinfer_${name}_image ${name}.fatbin > ${name}_image.c
    DEPENDS ${name}.cu ${ARGN}
    VERBATIM)
endfunction()
