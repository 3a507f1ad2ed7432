/*
 * interrupt.c: presses Ctrl-C in a program's console, under Wine.
 *
 *   interrupt.exe FILE PROGRAM [ARGUMENT...]
 *
 * Starts the program, waits until the file exists, and raises Ctrl-C. Returns
 * the exit status of the program. Wine gives it a console if it runs in a
 * terminal.
 */
#include <stdio.h>
#include <wchar.h>
#include <windows.h>

/* All programs of the console get the event, also this one. */
static BOOL WINAPI
ignore(DWORD kind)
{
    return kind == CTRL_C_EVENT;
}

int wmain(int argc, wchar_t **argv);

int
wmain(int argc, wchar_t **argv)
{
    wchar_t line[8192] = L"";
    STARTUPINFOW start = {.cb = sizeof start};
    PROCESS_INFORMATION program;
    DWORD status = STILL_ACTIVE;
    for (int i = 2; i < argc; i++) {
        wcscat(line, i > 2 ? L" \"" : L"\"");
        wcscat(line, argv[i]);
        wcscat(line, L"\"");
    }
    SetConsoleCtrlHandler(ignore, TRUE);
    if (argc < 3 || !CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL,
                                    &start, &program)) {
        fprintf(stderr, "cannot start the program\n");
        return 2;
    }
    while (GetFileAttributesW(argv[1]) == INVALID_FILE_ATTRIBUTES &&
           WaitForSingleObject(program.hProcess, 20) == WAIT_TIMEOUT)
        continue;
    if (!GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0))
        fprintf(stderr, "no event: error %lu\n", GetLastError());
    WaitForSingleObject(program.hProcess, INFINITE);
    GetExitCodeProcess(program.hProcess, &status);
    return (int) status;
}
