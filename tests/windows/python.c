/*
 * python.c: python.exe for the DLL of Python.
 */
#include <wchar.h>

__declspec(dllimport) int Py_Main(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv);

int
wmain(int argc, wchar_t **argv)
{
    return Py_Main(argc, argv);
}
