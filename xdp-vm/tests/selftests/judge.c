/* Asks the running kernel for its verdict on each program of the objects named, each loaded alone, as XDP,
 * through libbpf. A line a program: object, program, section, 1 where it is declared as XDP, verdict
 * (`accepted`, `refused`, or `unasked` where libbpf never got to ask), the end of the kernel's log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define MOST_PROGRAMS 512
#define NAME 128

static char log_text[1 << 24];
static char names[MOST_PROGRAMS][NAME];

static int silent(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return 0;
}

/* The last lines before the statistics, as one field. */
static const char *end_of_log(void)
{
	char *statistics = strstr(log_text, "\nprocessed ");
	if (statistics)
		*statistics = 0;
	char *at = log_text + strlen(log_text);
	for (int lines = 0; at > log_text; at--)
		if (*at == '\n' && ++lines == 3)
			break;
	for (char *c = at; *c; c++)
		if (*c == '\n' || *c == '\t')
			*c = ' ';
	return at;
}

static void judge(const char *path, const char *name)
{
	struct bpf_object *object = bpf_object__open(path);
	struct bpf_program *program, *chosen = NULL;
	if (!object)
		return;
	bpf_object__for_each_program(program, object) {
		int same = !strcmp(bpf_program__name(program), name);
		bpf_program__set_autoload(program, same);
		if (same)
			chosen = program;
	}
	if (!chosen)
		return;
	int declared = bpf_program__type(chosen) == BPF_PROG_TYPE_XDP;
	if (!declared) {
		bpf_program__set_type(chosen, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(chosen, BPF_XDP);
	}
	bpf_program__set_log_buf(chosen, log_text, sizeof(log_text));
	bpf_program__set_log_level(chosen, 1);
	int failed = bpf_object__load(object);
	/* Where the log is but statistics, the verifier is content; what failed came after it. */
	const char *verdict = "refused";
	if (!failed || !strncmp(log_text, "processed ", 10))
		verdict = "accepted";
	else if (!log_text[0] || !strstr(log_text, "processed "))
		verdict = "unasked";
	const char *slash = strrchr(path, '/');
	printf("%s\t%s\t%s\t%d\t%s\t%s\n", slash ? slash + 1 : path, name, bpf_program__section_name(chosen),
	       declared, verdict, failed ? end_of_log() : "");
}

int main(int count, char **paths)
{
	libbpf_set_print(silent);
	for (int n = 1; n < count; n++) {
		struct bpf_object *object = bpf_object__open(paths[n]);
		struct bpf_program *program;
		int programs = 0;
		if (!object) {
			fprintf(stderr, "%s: libbpf does not open it\n", paths[n]);
			continue;
		}
		bpf_object__for_each_program(program, object)
			if (programs < MOST_PROGRAMS)
				snprintf(names[programs++], NAME, "%s", bpf_program__name(program));
		bpf_object__close(object);
		/* A process each: libbpf crashes on some programs that are made to be of another type. */
		for (int k = 0; k < programs; k++) {
			int status;
			fflush(stdout);
			pid_t child = fork();
			if (child < 0)
				return 1;
			if (child == 0) {
				judge(paths[n], names[k]);
				fflush(stdout);
				_exit(0);
			}
			if (waitpid(child, &status, 0) < 0 || status != 0)
				fprintf(stderr, "%s: %s: libbpf crashed\n", paths[n], names[k]);
		}
	}
	return 0;
}
