# Finds Chart.js, which reports hold a copy of: GPUINFER_CHART_JS is its file.

find_file(GPUINFER_CHART_JS NAMES chart.min.js Chart.min.js PATHS /usr/share/javascript/chart.js
                                  /usr/local/share/javascript/chart.js NO_DEFAULT_PATH)
mark_as_advanced(GPUINFER_CHART_JS)
if(NOT GPUINFER_CHART_JS)
  message(FATAL_ERROR "Chart.js is missing, with which `gpuinfer report` draws; install the package libjs-chart.js or set "
                      "GPUINFER_CHART_JS to a chart.min.js of version 3.")
endif()
