# Defines the imported target Ember::ember for the ABI that the NDK's toolchain file builds for (ANDROID_ABI): the shared
# library if it is here, otherwise the static one, with what it needs of the system.
if(NOT DEFINED ANDROID_ABI OR NOT EXISTS "${CMAKE_CURRENT_LIST_DIR}/${ANDROID_ABI}/libember.a")
    set(Ember_FOUND FALSE)
    set(Ember_NOT_FOUND_MESSAGE "there is no library of Ember's for the Android ABI \"${ANDROID_ABI}\"")
    return()
endif()
if(NOT TARGET Ember::ember)
    if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/${ANDROID_ABI}/libember.so")
        add_library(Ember::ember SHARED IMPORTED)
        set_target_properties(Ember::ember PROPERTIES
            IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/${ANDROID_ABI}/libember.so")
    else()
        add_library(Ember::ember STATIC IMPORTED)
        set_target_properties(Ember::ember PROPERTIES
            IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/${ANDROID_ABI}/libember.a"
            INTERFACE_LINK_LIBRARIES "dl;m")
    endif()
    set_target_properties(Ember::ember PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/include")
endif()
