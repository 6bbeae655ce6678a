# gpuinfer_embed_texts(SOURCE HEADER NAMESPACE NAME FILE...): SOURCE, which defines for each NAME that HEADER declares in
# NAMESPACE a std::string_view with the text of FILE. It is written again when a FILE has changed.
function(gpuinfer_embed_texts source header namespace)
  set(texts "${ARGN}")
  set(files "")
  math(EXPR last "(${ARGC} - 3) / 2 - 1")
  foreach(i RANGE ${last})
    math(EXPR place "2 * ${i} + 1")
    list(GET texts ${place} file)
    list(APPEND files "${file}")
  endforeach()
  add_custom_command(
    OUTPUT ${source}
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${source}" "-DHEADER=${header}" "-DNAMESPACE=${namespace}" "-DTEXTS=${texts}" -P
            "${PROJECT_SOURCE_DIR}/cmake/WriteEmbeddedText.cmake"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/cmake/WriteEmbeddedText.cmake"
    VERBATIM)
  # Clang counts what every C++ compiler must take.
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
endfunction()
