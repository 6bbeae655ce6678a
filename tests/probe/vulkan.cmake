# The tests of probe/vulkan, on whatever device Vulkan shows, and without it.
gpuinfer_test(no_vulkan SOURCES no_vulkan_test.cpp "${PROJECT_SOURCE_DIR}/probe/vulkan/no_vulkan.cpp" LIBRARIES
              gpuinfer::model)
add_test(NAME intel_isa COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/intel_isa_test.py")
if(GPUINFER_HAVE_VULKAN)
  gpuinfer_test(vulkan SOURCES vulkan_carveouts_test.cpp vulkan_clock_test.cpp vulkan_test.cpp LIBRARIES gpuinfer::vulkan)
  add_executable(vulkan_pipelines vulkan_pipelines.cpp)
  gpuinfer_warnings(vulkan_pipelines)
  target_include_directories(vulkan_pipelines SYSTEM PRIVATE "${GPUINFER_VULKAN_INCLUDE}")
  target_link_libraries(vulkan_pipelines PRIVATE gpuinfer::vulkan)
  add_test(NAME vulkan_isa COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/vulkan_isa_test.py"
                                   $<TARGET_FILE:vulkan_pipelines>)
  set_tests_properties(vulkan_isa PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME vulkan_sass COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/vulkan_sass_test.py"
                                    $<TARGET_FILE:vulkan_pipelines>)
endif()
