# DTRAIN_ONEDNN: oneDNN's own convolutions beside ours, in bench/onednn and ref_onednn, where the
# library is found (AUTO), wherever it is (ON: it must be found), or not at all (OFF).
set_property(CACHE DTRAIN_ONEDNN PROPERTY STRINGS AUTO ON OFF)

# Links as dt_onednn, which is nothing where DTRAIN_ONEDNN leaves oneDNN out.
add_library(dt_onednn INTERFACE)
if(DTRAIN_ONEDNN AND DT_ONEDNN_INCLUDE AND DT_ONEDNN_LIBRARY)
    target_include_directories(dt_onednn SYSTEM INTERFACE ${DT_ONEDNN_INCLUDE})
    target_link_libraries(dt_onednn INTERFACE ${DT_ONEDNN_LIBRARY})
    target_compile_definitions(dt_onednn INTERFACE DTRAIN_WITH_ONEDNN)
    add_executable(onednn-bench ${CMAKE_SOURCE_DIR}/bench/onednn.c)
    target_include_directories(onednn-bench PRIVATE ${CMAKE_SOURCE_DIR}/tests/support)
    target_link_libraries(onednn-bench PRIVATE dt_model dt_onednn)
    if(DTRAIN_ASAN)
        target_sources(onednn-bench PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/sanitized.c)
    endif()
endif()
