/* The one function of Windows' bcryptprimitives.dll that Rust's standard library calls: Wine has the library since 8.3, and Debian 12
 * has Wine 8.0. Only for tests. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    return SystemFunction036(data, (ULONG)length);
}
